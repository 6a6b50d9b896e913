"""Files and folders on disk: written whole or not at all, read as one version, arrays as safetensors."""
