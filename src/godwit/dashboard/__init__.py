"""The dashboard: pages that show a network (`web`), and the libraries that they use, each as it was published."""

from godwit.dashboard.vendored_files import VendoredFile, VendoredPackage, import_map, vendored_packages

__all__ = ["VendoredFile", "VendoredPackage", "import_map", "vendored_packages"]
