import type { Readiness } from './readiness';

/** An answer of JSON. */
export interface StatusPage {
  readonly http: 200 | 503;
  readonly json: object;
}

/** `/healthz`: the process lives. */
export function healthPage(): StatusPage {
  return { http: 200, json: { status: 'ok' } };
}

/** `/readyz`: it serves, all of it or all but what is named; or why it does not. */
export async function readyPage(readiness: Readiness): Promise<StatusPage> {
  const status = await readiness.state();
  const { degraded } = readiness;
  return { http: status === 'ready' ? 200 : 503, json: degraded.length === 0 ? { status } : { status, degraded } };
}
