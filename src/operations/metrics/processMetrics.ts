import { totalmem } from 'node:os';
import type { Clock } from '../../kernel/clock';
import { descriptors } from '../descriptorWatch';
import { gauge, total, type Family } from './family';
import type { LoopDelay } from './loopDelay';
import { remembered } from './remembered';

/** One scrape asks once. */
const FILES_FRESH_MS = 1000;

/** The process, by the names that every program of this kind uses, and what they lack. */
export function processFamilies({ delay, clock }: { readonly delay: LoopDelay; readonly clock: Clock }): Family[] {
  const startedAt = Date.now() - process.uptime() * 1000;
  const files = remembered(FILES_FRESH_MS, descriptors);
  const offset = clock.now() - clock.monotonic();
  return [
    total('process_cpu_user_seconds_total', 'User CPU time, in seconds.', () => process.cpuUsage().user / 1e6),
    total('process_cpu_system_seconds_total', 'System CPU time, in seconds.', () => process.cpuUsage().system / 1e6),
    total('process_cpu_seconds_total', 'User and system CPU time, in seconds.', () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6),
    gauge('process_start_time_seconds', 'When the process started, Unix seconds.', () => startedAt / 1000),
    gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss()),
    gauge('nodejs_heap_size_used_bytes', 'Memory of the heap that is in use.', () => process.memoryUsage().heapUsed),
    gauge('nodejs_heap_size_total_bytes', 'Memory of the heap.', () => process.memoryUsage().heapTotal),
    gauge('nodejs_external_memory_bytes', 'Memory outside of the heap that is bound to it.', () => process.memoryUsage().external),
    gauge('process_open_fds', 'File descriptors that are open (Linux).', async () => (await files())?.open),
    gauge('process_max_fds', 'How many may be (Linux).', async () => (await files())?.most),
    gauge('plantroom_memory_limit_bytes', 'Memory that the process may take: the limit of its control group, else all of the machine.', memoryLimit),
    {
      name: 'plantroom_event_loop_delay_seconds',
      help: 'How late the event loop comes, of the last 15 to 30 seconds, by percentile: 50, 99, and 100 for the worst.',
      type: 'gauge',
      labels: ['percentile'],
      samples: () => delay.percentiles().map(({ percentile, seconds }) => ({ labels: [String(percentile)], value: seconds })),
    },
    gauge('plantroom_clock_jump_seconds', 'How far the clock of the machine was set forward (back: less than 0) since the server started.', () => (clock.now() - clock.monotonic() - offset) / 1000),
  ];
}

function memoryLimit(): number {
  const all = totalmem();
  const limit = process.constrainedMemory();
  return limit > 0 && limit < all ? limit : all;
}
