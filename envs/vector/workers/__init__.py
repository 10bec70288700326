"""Worker processes of vector environments."""
