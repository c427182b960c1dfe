"""The storage kernel: files, container, reader, serializer, snapshots, background worker, and the codecs and columns on
top."""
