import { DomainError } from '../../../kernel/errors';
import type { Connection } from '../../connection';
import { GATEWAY } from './gatewayType';

/** Creates the error for a gateway that attaches to a disabled connection, or whose connection is disabled. */
export function connectionDisabled(connectionId: string): DomainError {
  return new DomainError(
    'conflict',
    'connection_disabled',
    'the connection is disabled: enable it, then attach again',
    { metadata: { connection_id: connectionId } },
  );
}

/** Creates the error for a gateway that attaches to a connection of another connector. */
export function notAGateway({ id, connectorId }: Connection): DomainError {
  return new DomainError(
    'conflict',
    'not_a_gateway',
    `the connection uses the connector \`${connectorId}\`: attach to a connection with the connector \`${GATEWAY.id}\``,
    { metadata: { connection_id: id } },
  );
}

/** Creates the error for a stream without a Hello in time. */
export function helloRequired(limitMs: number): DomainError {
  return new DomainError(
    'deadline_exceeded',
    'hello_required',
    `no Hello was received within ${limitMs / 1000} s: send it as the first message of the stream`,
  );
}
