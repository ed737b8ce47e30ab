import type { Audit } from '../crash/audit';
import type { ForgetfulServer } from './forgetfulServer';
import type { WorldLine } from './worldFile';

/** Compares what such a server was told with what the devices saw. Nothing kept a command from its device but the end of the process that began it. */
export function judgeForgetful(server: Pick<ForgetfulServer, 'ordered' | 'uplinks' | 'wrong'>, world: readonly WorldLine[], meters: readonly string[]): Audit {
  const begun = new Set(world.flatMap((line) => (line.kind === 'starting' ? [line.executionId] : [])));
  const delivered = new Map<string, number>();
  for (const line of world) if (line.kind === 'delivered') delivered.set(line.executionId, (delivered.get(line.executionId) ?? 0) + 1);
  const sent = world.filter((line) => line.kind === 'sent');
  const faults = world.flatMap((line) => (line.kind === 'fault' ? [line.text] : []));
  const claims = server.ordered.flatMap(({ executionId, result }) => {
    if (result === 'ACCEPTED') return delivered.has(executionId) ? [] : [`${executionId} is ACCEPTED, and no device did it`];
    if (result === 'NO_ANSWER') return begun.has(executionId) ? [] : [`${executionId} is NO_ANSWER, and its delivery never began`];
    return result === undefined ? [] : [`${executionId} is ${result}, and nothing kept it from its device`];
  });
  const times = [...server.uplinks].filter(([name, ids]) => ids.size > 1 && meters.includes(name.split(' ', 1)[0] ?? ''));
  const count = (wanted: string): number => server.ordered.filter(({ result }) => result === wanted).length;
  return {
    lost: [
      ...server.ordered.filter(({ result }) => result === undefined).map(({ executionId }) => `${executionId} never had a result`),
      ...sent.filter(({ clientDeviceId, value }) => !server.uplinks.has(`${clientDeviceId} ${value}`)).map(({ clientDeviceId, value }) => `the uplink ${value} of ${clientDeviceId} was kept and never came`),
    ],
    doubled: [
      ...[...delivered].filter(([, often]) => often > 1).map(([executionId, often]) => `${executionId} was carried out ${often} times`),
      ...times.map(([name, ids]) => `the uplink ${name} came under ${ids.size} ids`),
    ],
    wrong: [...server.wrong, ...faults, ...claims, ...[...delivered.keys()].filter((executionId) => !begun.has(executionId)).map((executionId) => `${executionId} was delivered before that was kept`)],
    converged: count('ACCEPTED'),
    unconfirmed: count('NO_ANSWER'),
  };
}
