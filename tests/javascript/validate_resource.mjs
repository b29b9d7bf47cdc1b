// What the Prometheus operator's schemas have against the resource on standard input, a line each.
import { readFileSync } from "node:fs";
import * as kinds from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const resource = JSON.parse(readFileSync(0, "utf8"));
try {
  new kinds[resource.kind](resource).validate();
} catch (error) {
  console.log(error.message);
}
