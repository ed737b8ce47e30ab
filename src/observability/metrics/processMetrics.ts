import { totalmem } from 'node:os';
import type { Clock } from '../../kernel/clock';
import { readDescriptorUsage } from '../descriptorWatch';
import { gauge, plainCounter, type MetricFamily } from './metricFamily';
import type { EventLoopLag } from './eventLoopLag';
import { memoizeFor } from './memoizeFor';

/** Two metrics share one read per scrape. */
const DESCRIPTORS_CACHE_MS = 1000;

/** Creates the metrics of the process, under the standard names of Prometheus, and additional ones. */
export function createProcessFamilies({
  eventLoopLag,
  clock,
}: {
  readonly eventLoopLag: EventLoopLag;
  readonly clock: Clock;
}): MetricFamily[] {
  const startedAt = Date.now() - process.uptime() * 1000;
  const readDescriptors = memoizeFor(DESCRIPTORS_CACHE_MS, readDescriptorUsage);
  // The monotonic clock never jumps, so a change of this difference is a jump of the system clock.
  const initialOffsetMs = clock.now() - clock.monotonic();
  return [
    plainCounter('process_cpu_user_seconds_total', 'User CPU time, in seconds.', () =>
      toSeconds(process.cpuUsage().user),
    ),
    plainCounter('process_cpu_system_seconds_total', 'System CPU time, in seconds.', () =>
      toSeconds(process.cpuUsage().system),
    ),
    plainCounter('process_cpu_seconds_total', 'User and system CPU time, in seconds.', () =>
      toSeconds(process.cpuUsage().user + process.cpuUsage().system),
    ),
    gauge('process_start_time_seconds', 'When the process started, Unix seconds.', () => startedAt / 1000),
    gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss()),
    gauge('nodejs_heap_size_used_bytes', 'Used heap memory.', () => process.memoryUsage().heapUsed),
    gauge('nodejs_heap_size_total_bytes', 'Total heap memory.', () => process.memoryUsage().heapTotal),
    gauge(
      'nodejs_external_memory_bytes',
      'Memory outside of the heap that belongs to heap objects.',
      () => process.memoryUsage().external,
    ),
    gauge('process_open_fds', 'Open file descriptors (Linux).', async () => (await readDescriptors())?.open),
    gauge(
      'process_max_fds',
      'Maximum number of open file descriptors (Linux).',
      async () => (await readDescriptors())?.max,
    ),
    gauge(
      'plantroom_memory_limit_bytes',
      'Memory limit of the process: that of its control group, else the memory of the machine.',
      getMemoryLimit,
    ),
    {
      name: 'plantroom_event_loop_delay_seconds',
      help: 'Event loop delay over the last 15 to 30 seconds, by percentile: 50, 99 and 100 (maximum).',
      type: 'gauge',
      labels: ['percentile'],
      samples: () =>
        eventLoopLag
          .getPercentiles()
          .map(({ percentile, seconds }) => ({ labels: [String(percentile)], value: seconds })),
    },
    gauge(
      'plantroom_clock_offset_seconds',
      'How far the system clock was set forward since the server started; negative: back.',
      () => (clock.now() - clock.monotonic() - initialOffsetMs) / 1000,
    ),
  ];
}

/** Converts the microseconds of process.cpuUsage(). */
function toSeconds(microseconds: number): number {
  return microseconds / 1e6;
}

/**
 * Returns the limit of the control group (a container), or the memory of the machine if there is no smaller limit; in
 * bytes.
 */
function getMemoryLimit(): number {
  const machineBytes = totalmem();
  const limitBytes = process.constrainedMemory();
  return limitBytes > 0 && limitBytes < machineBytes ? limitBytes : machineBytes;
}
