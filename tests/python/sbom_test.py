"""What deploy/sbom writes is CycloneDX 1.6, whole, and the same every time."""

import json
import subprocess
import tomllib
import unittest
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

REPO = Path(__file__).resolve().parents[2]


def written(*options):
    return subprocess.run(
        [REPO / "deploy/sbom", *options], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def wrong(document):
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(document)


class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = written()
        cls.bom = json.loads(cls.text)
        cls.components = {it["name"]: it for it in cls.bom["components"]}

    def test_it_is_cyclonedx(self):
        self.assertIsNone(wrong(self.text))

    def test_the_validator_notices_what_is_not(self):
        for change in [
            lambda bom: bom.pop("bomFormat"),
            lambda bom: bom["components"][0].update(type="crate"),
            lambda bom: bom["components"][0]["hashes"][0].update(content="none"),
        ]:
            bom = json.loads(self.text)
            change(bom)
            self.assertIsNotNone(wrong(json.dumps(bom)))

    def test_same_sources_give_the_same_bytes(self):
        self.assertEqual(self.text, written())

    def test_every_component_has_a_licence_and_every_foreign_one_its_checksum(self):
        locked = tomllib.loads((REPO / "Cargo.lock").read_text())["package"]
        checksums = {(it["name"], it["version"]): it.get("checksum") for it in locked}
        for component in self.bom["components"]:
            with self.subTest(component["purl"]):
                self.assertTrue(component["licenses"])
                if component["purl"].startswith("pkg:npm/"):
                    continue
                checksum = checksums[component["name"], component["version"]]
                hashes = [it["content"] for it in component.get("hashes", [])]
                self.assertEqual(hashes, [checksum] if checksum else [])
                self.assertEqual(checksum is None, component["name"].startswith("tidemill-"))

    def test_what_the_reference_is_made_of_is_listed_as_it_was_fetched(self):
        page = self.components["swagger-ui-dist"]
        place = REPO / "crates/api/reference"
        about = json.loads((place / "package.json").read_text())
        self.assertEqual(page["purl"], f"pkg:npm/swagger-ui-dist@{about['version']}")
        self.assertEqual(page["licenses"], [{"expression": "Apache-2.0"}])
        self.assertEqual([len(it["content"]) for it in page["hashes"]], [128])
        self.assertIn("Apache License", (place / "LICENSE").read_text())
        self.assertIn(f"{about['version']}/swagger-ui.css", (place / "index.html").read_text())
        self.assertIn(page["purl"], [to for it in self.bom["dependencies"] for to in it["dependsOn"]])

    def test_what_is_linked_is_told_from_what_builds_and_what_tests(self):
        scope = {name: it["scope"] for name, it in self.components.items()}
        for name in ["tidemill-engine", "rdkafka-sys", "libsqlite3-sys", "tokio", "rustls", "parquet"]:
            self.assertEqual(scope.get(name), "required", name)
        for name in ["serde_derive", "cc"]:
            self.assertEqual(scope.get(name), "excluded", name)
        for name in ["proptest", "tidemill-testkit", "tidemill-corpus", "tidemill-chaos"]:
            self.assertNotIn(name, scope)

    def test_features_decide_what_is_in_it(self):
        embedded = json.loads(written("--features", ""))
        names = {it["name"] for it in embedded["components"]}
        self.assertNotIn("rdkafka-sys", names)
        self.assertIn("libsqlite3-sys", names)

    def test_every_edge_leads_somewhere(self):
        references = {it["bom-ref"] for it in self.bom["components"]}
        references.add(self.bom["metadata"]["component"]["bom-ref"])
        edges = {it["ref"]: it["dependsOn"] for it in self.bom["dependencies"]}
        self.assertEqual(set(edges), references)
        self.assertLessEqual({to for beneath in edges.values() for to in beneath}, references)


if __name__ == "__main__":
    unittest.main()
