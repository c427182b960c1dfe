"""Several processes: ranks that learn one policy (`launch`), several trainings (`multirun`), searches (`sweep`)."""
