import type { UnitOfWork } from '../database';
import type { ChangeFeed } from '../kernel/changeFeed';
import { notFound } from '../kernel/errors';
import type { Viewer } from './dashboard';
import type { DashboardRepositories } from './dashboardRepositories';
import type { DashboardRevisionState } from './dashboardRepository';

/** The current revision of a dashboard, its deletion, or a marker that each dashboard was sent once. */
export type DashboardUpdate =
  | ({ readonly kind: 'revision' } & DashboardRevisionState)
  | { readonly kind: 'deleted'; readonly id: string }
  | { readonly kind: 'complete' };

/** Streams which revision dashboards have. A slow reader receives the latest revision of each. */
export class DashboardWatch {
  constructor(
    private readonly options: { readonly work: UnitOfWork<DashboardRepositories>; readonly feed: ChangeFeed },
  ) {}

  /**
   * Yields each dashboard once, then `complete`, then changes until the signal aborts. `ids`: only these; empty: all
   * that the viewer may view. Throws `dashboard_not_found`.
   */
  async *watch(viewer: Viewer, ids: readonly string[], signal: AbortSignal): AsyncGenerator<DashboardUpdate> {
    const { work, feed } = this.options;
    const subscription = feed.subscribe(viewer.organizationId, signal);
    try {
      const sentRevisions = new Map<string, number>();
      let isComplete = false;
      while (!signal.aborted) {
        subscription.markRead();
        const states = await work.repos.dashboards.listRevisions(viewer, ids);
        if (!isComplete) assertAllFound(ids, states);
        yield* listUpdates(states, sentRevisions);
        if (!isComplete) yield { kind: 'complete' };
        isComplete = true;
        // Only this process changes dashboards, so there is nothing to poll for.
        await subscription.waitForNotification();
      }
    } finally {
      subscription.close();
    }
  }
}

/** Yields what differs from what was sent, and notes it as sent. */
function* listUpdates(
  states: readonly DashboardRevisionState[],
  sentRevisions: Map<string, number>,
): Generator<DashboardUpdate> {
  const existingIds = new Set(states.map(({ id }) => id));
  for (const id of [...sentRevisions.keys()].filter((sentId) => !existingIds.has(sentId))) {
    sentRevisions.delete(id);
    yield { kind: 'deleted', id };
  }
  for (const state of states) {
    if (sentRevisions.get(state.id) === state.revision) continue;
    sentRevisions.set(state.id, state.revision);
    yield { kind: 'revision', ...state };
  }
}

/** Throws `dashboard_not_found`. */
function assertAllFound(ids: readonly string[], states: readonly DashboardRevisionState[]): void {
  const missing = ids.find((id) => !states.some((state) => state.id === id));
  if (missing !== undefined) throw notFound('dashboard', missing);
}
