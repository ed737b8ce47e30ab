import { credentials } from '@grpc/grpc-js';
import type { ServerOptions } from '../options';
import { findHeaderViolation, throwIfInvalid } from './checkOptions';

/** Creates the channel credentials for a server. */
export function getCredentials({ ca, insecure }: ServerOptions): ReturnType<typeof credentials.createSsl> {
  return insecure ? credentials.createInsecure() : credentials.createSsl(ca === undefined ? null : Buffer.from(ca));
}

/** Returns the API key for a call. Throws PlantroomError `options_invalid`; the error never contains the key. */
export function getKey(apiKey: ServerOptions['apiKey']): string {
  if (typeof apiKey === 'string') return apiKey;
  const key: unknown = apiKey();
  const violation = findHeaderViolation('apiKey', key, 'the API key (plr_…) as the return value of the function');
  throwIfInvalid(violation ? [violation] : []);
  return key as string;
}
