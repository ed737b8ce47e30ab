import type { RunResult } from './executionRun';
import type { GatewayImplementation } from './gatewayImplementations';
import { summarize } from './latencies';
import type { GatewayPeer } from './measuredGateway';

/** The number of uplinks that are sent concurrently. */
const MAX_CONCURRENT = 100;

/**
 * Sends uplinks as fast as the gateway accepts them, until the server has acknowledged the last one. The latency is the
 * time until the gateway accepts the next uplink.
 */
export async function runGatewayUplinks(
  implementation: GatewayImplementation,
  peer: GatewayPeer,
  devices: readonly string[],
  count: number,
): Promise<RunResult> {
  const all = Promise.withResolvers<void>();
  let acknowledged = 0;
  let failed = 0;
  const uplinkAcknowledged = (_: string, stored: boolean): void => {
    if (!stored) failed += 1;
    if ((acknowledged += 1) === count) all.resolve();
  };
  const gateway = await implementation.attach(peer, { acknowledged: () => {}, uplinkAcknowledged });
  const latencies: number[] = [];
  let sent = 0;
  const cpu = peer.server.process.cpuMilliseconds();
  const began = performance.now();
  const sender = async (): Promise<void> => {
    while (sent < count) {
      const n = sent++;
      const since = performance.now();
      await gateway.uplink(devices[n % devices.length] ?? '', {
        data: { s0: n, s1: 20 + (n % 70) / 10, s2: 1013 + (n % 13), s3: -n / 3, s4: n % 2 },
      });
      latencies.push(performance.now() - since);
    }
  };
  await Promise.race([Promise.all([...Array.from({ length: MAX_CONCURRENT }, sender), all.promise]), gateway.lost]);
  const elapsed = performance.now() - began;
  const used = peer.server.process.cpuMilliseconds() - cpu;
  await gateway.detach();
  return {
    ...summarize(latencies, { calls: count, failed, seconds: elapsed / 1000 }),
    cpu: (used * 1000) / count,
    busy: used / elapsed,
  };
}
