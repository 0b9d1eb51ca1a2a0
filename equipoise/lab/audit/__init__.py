"""Checks what theory promises against simulation, where the truth is known: `equipoise audit`."""
