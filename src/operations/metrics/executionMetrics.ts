import type { Executions } from '../../executions';
import type { Clock } from '../../kernel/clock';
import { counter, gauge, histogramBy, type Family } from './family';
import { remembered } from './remembered';

/** A query of the database holds for so many milliseconds. */
const FRESH_MS = 5000;

/** Executions of all organizations. */
export function executionFamilies({ executions, clock }: { readonly executions: Pick<Executions, 'counts' | 'openFigures'>; readonly clock: Clock }): Family[] {
  const { counts } = executions;
  const open = remembered(FRESH_MS, async () => await executions.openFigures());
  return [
    {
      name: 'plantroom_executions_open',
      help: 'Executions that have not ended, by state; beyond 50,000 the others are not counted.',
      type: 'gauge',
      labels: ['state'],
      samples: async () => {
        const { states } = await open();
        return Array.from(states, ([state, value]) => ({ labels: [state], value }));
      },
    },
    gauge('plantroom_executions_oldest_waiting_seconds', 'How long ago the oldest execution was asked for that still waits in its queue; 0 while none does.', async () => {
      const { oldestWaiting } = await open();
      return oldestWaiting === undefined ? 0 : Math.max(0, clock.now() - oldestWaiting) / 1000;
    }),
    {
      name: 'plantroom_executions_ended_total',
      help: 'Executions that ended, by the state in which they did; withdrawn="yes": somebody cancelled them, or removed their device or connection.',
      type: 'counter',
      labels: ['state', 'withdrawn'],
      samples: () => [counts.ended, counts.withdrawn].flatMap((tally) => Array.from(tally.entries(), ([state, value]) => ({ labels: [state, tally === counts.withdrawn ? 'yes' : 'no'], value }))),
    },
    histogramBy('plantroom_execution_duration_seconds', 'From the request of an execution to its end, by the state at the end.', 'state', counts.durations),
    counter('plantroom_dispatches_total', 'Attempts to send: sent, put_back (it provably did not leave) or failed (nobody knows).', 'result', counts.dispatches),
  ];
}
