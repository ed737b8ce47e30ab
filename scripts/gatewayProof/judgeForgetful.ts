import type { ExecutionFindings } from '../crash/executionFindings';
import type { ForgetfulServer } from './forgetfulServer';
import type { WorldLine } from './worldFile';

/**
 * Compares the messages to a forgetful server with the actions of the devices. Nothing prevented the delivery of a command
 * except the end of the process that started it.
 */
export function judgeForgetful(
  server: Pick<ForgetfulServer, 'ordered' | 'uplinks' | 'wrong'>,
  world: readonly WorldLine[],
  meters: readonly string[],
): ExecutionFindings {
  const startedIds = new Set(world.flatMap((line) => (line.kind === 'starting' ? [line.executionId] : [])));
  const delivered = new Map<string, number>();
  for (const line of world)
    if (line.kind === 'delivered') delivered.set(line.executionId, (delivered.get(line.executionId) ?? 0) + 1);
  const sent = world.filter((line) => line.kind === 'sent');
  const faults = world.flatMap((line) => (line.kind === 'fault' ? [line.text] : []));
  const claims = server.ordered.flatMap(({ executionId, result }) => {
    if (result === 'ACCEPTED')
      return delivered.has(executionId) ? [] : [`${executionId} is ACCEPTED, but no device carried it out`];
    if (result === 'NO_ANSWER')
      return startedIds.has(executionId) ? [] : [`${executionId} is NO_ANSWER, but its delivery never started`];
    return result === undefined ? [] : [`${executionId} is ${result}, but nothing prevented its delivery`];
  });
  const times = [...server.uplinks].filter(
    ([name, ids]) => ids.size > 1 && meters.includes(name.split(' ', 1)[0] ?? ''),
  );
  const count = (wanted: string): number => server.ordered.filter(({ result }) => result === wanted).length;
  return {
    lost: [
      ...server.ordered
        .filter(({ result }) => result === undefined)
        .map(({ executionId }) => `${executionId} never had a result`),
      ...sent
        .filter(({ clientDeviceId, value }) => !server.uplinks.has(`${clientDeviceId} ${value}`))
        .map(
          ({ clientDeviceId, value }) =>
            `the uplink ${value} of ${clientDeviceId} was accepted by the gateway but never arrived`,
        ),
    ],
    doubled: [
      ...[...delivered]
        .filter(([, times]) => times > 1)
        .map(([executionId, times]) => `${executionId} was carried out ${times} times`),
      ...times.map(([name, ids]) => `the uplink ${name} arrived with ${ids.size} different ids`),
    ],
    wrong: [
      ...server.wrong,
      ...faults,
      ...claims,
      ...[...delivered.keys()]
        .filter((executionId) => !startedIds.has(executionId))
        .map((executionId) => `${executionId} was delivered before its start was stored`),
    ],
    converged: count('ACCEPTED'),
    unconfirmed: count('NO_ANSWER'),
  };
}
