import type { Config } from '../config';
import type { Logger } from '../kernel/logger';
import { programVersion } from '../kernel/programVersion';
import type { Traces } from '../operations/traces/traces';

/** Traces, where the configuration names a collector; elsewhere undefined, and nothing of OpenTelemetry is loaded: it would be a part of every start. */
export async function openTraces({ endpoint, samplePercent }: Config['traces'], log: Logger): Promise<Traces | undefined> {
  if (endpoint === '') return undefined;
  const traces = await import('../operations/traces/traces.ts');
  return new traces.Traces({ endpoint, samplePercent, version: programVersion().version, log });
}
