import type { Readiness } from './readiness';

/** A JSON response. */
export interface StatusPage {
  readonly http: 200 | 503;
  readonly json: object;
}

/** Creates the response of `/healthz`: the process is running. */
export function createHealthPage(): StatusPage {
  return { http: 200, json: { status: 'ok' } };
}

/**
 * Creates the response of `/readyz`: whether the server is ready, or the reason why not, and the features that do not
 * work.
 */
export async function createReadyPage(readiness: Readiness): Promise<StatusPage> {
  const status = await readiness.getState();
  const { degradedFeatures: degraded } = readiness;
  return { http: status === 'ready' ? 200 : 503, json: degraded.length === 0 ? { status } : { status, degraded } };
}
