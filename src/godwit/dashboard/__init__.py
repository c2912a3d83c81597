"""The dashboard: pages that show a network. So far the libraries that the pages use, each as it was published."""

from godwit.dashboard.vendored_files import VendoredFile, VendoredPackage, import_map, vendored_packages

__all__ = ["VendoredFile", "VendoredPackage", "import_map", "vendored_packages"]
