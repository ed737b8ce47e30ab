import { randomUUID } from 'node:crypto';
import { containsApiKey } from '../../kernel/redactApiKeys';

const VALID_ID = /^[!-~](?:[ -~]{0,126}[!-~])?$/;

/**
 * Returns the client's request id if it is valid (1 to 128 printable ASCII characters), otherwise a new one. An id that
 * contains an API key is replaced too, because request ids are logged.
 */
export function chooseRequestId(clientId: unknown): string {
  return typeof clientId === 'string' && VALID_ID.test(clientId) && !containsApiKey(clientId) ? clientId : randomUUID();
}
