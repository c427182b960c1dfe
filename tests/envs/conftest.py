from helpers.env_fixtures import same_record, situation  # noqa: F401  # fixtures
