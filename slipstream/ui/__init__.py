"""What commands and tasks show: progress bars, tables and reports, figures, films. Clients of `storage`."""
