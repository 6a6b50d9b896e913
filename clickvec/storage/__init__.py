"""Files and folders on disk: atomic writes, reads of one consistent version, arrays as safetensors."""
