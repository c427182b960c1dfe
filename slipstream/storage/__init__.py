"""What savers share: the snapshot at the call, the thread that writes later, files that appear whole or not at all."""
