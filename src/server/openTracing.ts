import type { Config } from '../config';
import type { Logger } from '../kernel/logger';
import { getProgramVersion } from '../kernel/programVersion';
import type { Tracing } from '../observability/traces/tracing';

/**
 * Opens tracing if the configuration has an endpoint, otherwise returns undefined. OpenTelemetry is loaded only then,
 * to keep the start fast.
 */
export async function openTracing(
  { endpoint, samplePercent }: Config['traces'],
  log: Logger,
): Promise<Tracing | undefined> {
  if (endpoint === '') return undefined;
  const traces = await import('../observability/traces/tracing.ts');
  return new traces.Tracing({ endpoint, samplePercent, version: getProgramVersion().version, log });
}
