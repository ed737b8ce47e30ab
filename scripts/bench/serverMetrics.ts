import type { PlantroomServer } from './plantroomServer';

const SCRAPE_TIMEOUT_MS = 2000;

/** Returns the metrics of a server as text; empty if it has no metrics address or does not answer in time. */
export async function fetchMetrics(server: PlantroomServer): Promise<string> {
  const address = server.process.ready.metrics;
  if (!address) return '';
  try {
    return await (await fetch(`http://${address}/metrics`, { signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS) })).text();
  } catch {
    return ''; // the server is busy or gone; other checks detect that
  }
}

/** Returns the value of a metric, of the first series that has the label; NaN if it is missing. */
export function parseMetric(text: string, name: string, label = ''): number {
  return Number(
    new RegExp(`^${name}(?:\\{[^}]*${label}[^}]*\\})${label === '' ? '?' : ''} (\\S+)`, 'm').exec(text)?.[1],
  );
}
