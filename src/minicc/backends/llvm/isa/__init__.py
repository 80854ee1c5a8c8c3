"""The only place for what one instruction set has and others lack: x86-64's, so far."""
