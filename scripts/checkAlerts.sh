#!/usr/bin/env bash
# Checks alert rules, scrape configuration and dashboard with promtool: each alert must fire in its test case, and none
# for a healthy server.
set -euo pipefail
cd "$(dirname "$0")/../deploy/prometheus"
if ! command -v promtool >/dev/null; then
  echo 'SKIPPED: promtool is not installed (Debian: apt-get install prometheus): the alerts were not tested'
  exit 0
fi
promtool check config --syntax-only prometheus.yaml
promtool check rules --lint=all plantroom-alerts.yaml
promtool test rules plantroom-alerts.test.yaml
# Write the dashboard queries into a rule file, so that promtool finds errors that Grafana would only show on the page.
queries=$(mktemp)
trap 'rm -f "$queries"' EXIT
node -e '
  const { panels } = JSON.parse(require("node:fs").readFileSync("../grafana/plantroom.json", "utf8"));
  const replaceVariables = (expr) => expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".*").replaceAll("$job", "plantroom");
  const rules = panels.flatMap(({ targets = [] }) => targets).map(({ expr }, at) => ({ record: `dashboard:query:${at}`, expr: replaceVariables(expr) }));
  console.log(JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
' >"$queries"
promtool check rules "$queries"
