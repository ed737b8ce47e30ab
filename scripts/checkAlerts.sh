#!/usr/bin/env bash
# The rules, the scrape and the dashboard, looked at by Prometheus' own tool: each alert fires when it should, and none in health.
set -euo pipefail
cd "$(dirname "$0")/../deploy/prometheus"
if ! command -v promtool >/dev/null; then
  echo 'NOT HERE: no promtool on this machine (Debian has it in the package prometheus): nothing tried the alerts'
  exit 0
fi
promtool check config --syntax-only prometheus.yaml
promtool check rules --lint=all plantroom-alerts.yaml
promtool test rules plantroom-alerts.test.yaml
# The queries of the dashboard as a rule file, so that what Grafana only finds out when somebody looks is found here.
queries=$(mktemp)
trap 'rm -f "$queries"' EXIT
node -e '
  const { panels } = JSON.parse(require("node:fs").readFileSync("../grafana/plantroom.json", "utf8"));
  const known = (expr) => expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".*").replaceAll("$job", "plantroom");
  const rules = panels.flatMap(({ targets = [] }) => targets).map(({ expr }, at) => ({ record: `dashboard:query:${at}`, expr: known(expr) }));
  console.log(JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
' >"$queries"
promtool check rules "$queries"
