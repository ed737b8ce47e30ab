import type { Hello } from '../../../gen/gateway/v1/gateway_service';
import { DomainError, validationFailed } from '../../../kernel/errors';

/** The lowest and the highest version of the Attach protocol that this server speaks. */
export const SERVER_SPEAKS = { lowest: 1, highest: 1 } as const;

const LONGEST_SOFTWARE = 128;

/**
 * The version that is spoken with a gateway: the highest that both sides speak. What the gateway leaves out (0) is 1, which is all that there was before versions had a name.
 * Throws `validation_failed` for a range that is none, `protocol_version_unsupported` where no version is common.
 */
export function commonVersion(hello: Pick<Hello, 'lowestProtocolVersion' | 'highestProtocolVersion'>): number {
  const lowest = hello.lowestProtocolVersion || 1;
  const highest = hello.highestProtocolVersion || 1;
  if (lowest > highest) throw validationFailed([{ field: 'hello.lowestProtocolVersion', description: `is ${lowest}, above the highest, ${highest}; give the lowest and the highest version that the gateway speaks` }]);
  if (highest < SERVER_SPEAKS.lowest || lowest > SERVER_SPEAKS.highest) throw unsupported(lowest, highest);
  return Math.min(highest, SERVER_SPEAKS.highest);
}

/** What people are shown of the gateway's software: one line, whatever the gateway sent. */
export function shownSoftware(software: string): string {
  const line = software.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return Array.from(line).slice(0, LONGEST_SOFTWARE).join(''); // code points, as the rule of Hello counts
}

function unsupported(lowest: number, highest: number): DomainError {
  const server = SERVER_SPEAKS;
  const help = highest < server.lowest ? 'update the gateway software' : 'update the server, or take an older version of the gateway software';
  const message = `the gateway speaks ${versions(lowest, highest)} of the protocol and the server ${versions(server.lowest, server.highest)}; ${help}`;
  return new DomainError('conflict', 'protocol_version_unsupported', message, { metadata: { lowest: String(server.lowest), highest: String(server.highest) } });
}

function versions(lowest: number, highest: number): string {
  return lowest === highest ? `version ${lowest}` : `versions ${lowest} to ${highest}`;
}
