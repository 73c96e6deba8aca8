"""Programs that Ray runs on TPU slices, or on CPUs to try them. They ship in a ConfigMap or an image, a file each."""
