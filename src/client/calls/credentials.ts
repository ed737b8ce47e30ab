import { credentials } from '@grpc/grpc-js';
import type { ServerOptions } from '../options';
import { headerMistake, throwIfAny } from './checkOptions';

/** What a channel to the server is made with. */
export function credentialsOf({ ca, insecure }: ServerOptions): ReturnType<typeof credentials.createSsl> {
  return insecure ? credentials.createInsecure() : credentials.createSsl(ca === undefined ? null : Buffer.from(ca));
}

/** The key of a call. Throws PlantroomError `options_invalid`, never with the key in it. */
export function keyOf(apiKey: ServerOptions['apiKey']): string {
  if (typeof apiKey === 'string') return apiKey;
  const given: unknown = apiKey();
  const mistake = headerMistake('apiKey', given, 'the key as it was created, plr_…: the function must return it');
  throwIfAny(mistake ? [mistake] : []);
  return given as string;
}
