"""The embedded AWS: ministack, started on loopback, mended where it tells less than AWS does."""
