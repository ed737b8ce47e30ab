import type { Executions } from '../../executions';
import type { Clock } from '../../kernel/clock';
import { counter, gauge, histogramBy, type MetricFamily } from './metricFamily';
import { memoizeFor } from './memoizeFor';

/** A database query is cached for this many milliseconds. */
const CACHE_MS = 5000;

/** Creates the metrics of the executions of all organizations. */
export function createExecutionFamilies({
  executions,
  clock,
}: {
  readonly executions: Pick<Executions, 'counts' | 'readActiveStats'>;
  readonly clock: Clock;
}): MetricFamily[] {
  const { counts } = executions;
  const readActiveStats = memoizeFor(CACHE_MS, async () => await executions.readActiveStats());
  return [
    {
      name: 'plantroom_executions_active',
      help: 'Executions without a final state, by state. Counts at most 50,000.',
      type: 'gauge',
      labels: ['state'],
      samples: async () => {
        const { states } = await readActiveStats();
        return Array.from(states, ([state, value]) => ({ labels: [state], value }));
      },
    },
    gauge(
      'plantroom_execution_queue_oldest_age_seconds',
      'Age of the oldest execution that waits in its queue. 0 if none waits.',
      async () => {
        const { oldestWaiting } = await readActiveStats();
        return oldestWaiting === undefined ? 0 : Math.max(0, clock.now() - oldestWaiting) / 1000;
      },
    ),
    {
      name: 'plantroom_executions_completed_total',
      help: 'Completed executions by final state. withdrawn="yes": cancelled, or their device or connection was removed.',
      type: 'counter',
      labels: ['state', 'withdrawn'],
      samples: () =>
        [
          { countByState: counts.ended, withdrawn: 'no' },
          { countByState: counts.withdrawn, withdrawn: 'yes' },
        ].flatMap(({ countByState, withdrawn }) =>
          Array.from(countByState.entries(), ([state, value]) => ({ labels: [state, withdrawn], value })),
        ),
    },
    histogramBy(
      'plantroom_execution_duration_seconds',
      'Time from the request of an execution to its final state, by final state.',
      'state',
      counts.durations,
    ),
    counter(
      'plantroom_dispatches_total',
      'Attempts to send: sent, requeued (certainly not sent, queued again) or failed (outcome unknown).',
      'result',
      counts.dispatches,
    ),
  ];
}
