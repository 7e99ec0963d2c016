"""Federated averaging with compressed updates on the digits, over Flower."""
