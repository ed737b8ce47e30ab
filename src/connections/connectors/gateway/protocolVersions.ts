import type { Hello } from '../../../gen/gateway/v1/gateway_service';
import { DomainError, validationFailed } from '../../../kernel/errors';

/** The lowest and highest version of the Attach protocol that this server supports. */
const SUPPORTED_PROTOCOL_VERSIONS = { lowest: 1, highest: 1 } as const;

const MAX_SOFTWARE_LENGTH = 128;

/**
 * Returns the protocol version to use with a gateway: the highest that both sides support. An omitted version (0) means
 * 1, the only version before versions were introduced. Throws `validation_failed` for an invalid range,
 * `protocol_version_unsupported` if there is no common version.
 */
export function negotiateVersion(hello: Pick<Hello, 'lowestProtocolVersion' | 'highestProtocolVersion'>): number {
  const lowest = hello.lowestProtocolVersion || 1;
  const highest = hello.highestProtocolVersion || 1;
  if (lowest > highest)
    throw validationFailed([
      {
        field: 'hello.lowestProtocolVersion',
        description: `must not be greater than highestProtocolVersion (got ${lowest} and ${highest}): set the lowest and highest version that the gateway supports`,
      },
    ]);
  if (highest < SUPPORTED_PROTOCOL_VERSIONS.lowest || lowest > SUPPORTED_PROTOCOL_VERSIONS.highest)
    throw protocolVersionUnsupported(lowest, highest);
  return Math.min(highest, SUPPORTED_PROTOCOL_VERSIONS.highest);
}

/** Formats the software name of the gateway for display: one line of printable text. */
export function formatSoftware(software: string): string {
  const line = software.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return Array.from(line).slice(0, MAX_SOFTWARE_LENGTH).join(''); // code points, as in the field rule of Hello
}

/** Creates the error for a gateway whose versions, `lowest` to `highest`, the server does not support. */
function protocolVersionUnsupported(lowest: number, highest: number): DomainError {
  const server = SUPPORTED_PROTOCOL_VERSIONS;
  const help =
    highest < server.lowest
      ? 'update the gateway software'
      : 'update the server, or use an older version of the gateway software';
  const message = `the gateway supports ${formatVersions(lowest, highest)} of the protocol and the server ${formatVersions(server.lowest, server.highest)}: ${help}`;
  return new DomainError('conflict', 'protocol_version_unsupported', message, {
    metadata: { lowest: String(server.lowest), highest: String(server.highest) },
  });
}

function formatVersions(lowest: number, highest: number): string {
  return lowest === highest ? `version ${lowest}` : `versions ${lowest} to ${highest}`;
}
