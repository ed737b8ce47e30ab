import type { RunResult } from './executionRun';
import type { Way } from './gatewayLibraryWays';
import { quantile } from './measure';
import type { Seat } from './measuredGateway';

/** Uplinks that are handed over at once, as by so many devices. */
const AT_ONCE = 100;

/** So many uplinks as fast as the gateway takes them; ends when the server has acknowledged the last. The latency is that of handing over: until the gateway takes the next one. */
export async function runGatewayUplinks(way: Way, seat: Seat, devices: readonly string[], count: number): Promise<RunResult> {
  const all = Promise.withResolvers<void>();
  let acknowledged = 0;
  let failed = 0;
  const uplinked = (_: string, stored: boolean): void => {
    if (!stored) failed += 1;
    if ((acknowledged += 1) === count) all.resolve();
  };
  const gateway = await way.attach(seat, { acknowledged: () => {}, uplinked });
  const latencies: number[] = [];
  let sent = 0;
  const cpu = seat.server.process.cpuMilliseconds();
  const began = performance.now();
  const sender = async (): Promise<void> => {
    while (sent < count) {
      const n = sent++;
      const since = performance.now();
      await gateway.uplink(devices[n % devices.length] ?? '', { data: { s0: n, s1: 20 + (n % 70) / 10, s2: 1013 + (n % 13), s3: -n / 3, s4: n % 2 } });
      latencies.push(performance.now() - since);
    }
  };
  await Promise.race([Promise.all([...Array.from({ length: AT_ONCE }, sender), all.promise]), gateway.lost]);
  const elapsed = performance.now() - began;
  const used = seat.server.process.cpuMilliseconds() - cpu;
  await gateway.detach();
  return { calls: count, failed, perSecond: (count * 1000) / elapsed, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), cpu: (used * 1000) / count, busy: used / elapsed };
}
