import type { Evidence } from '../../connector';
import type { PublishOutcome } from '../broker/publishOutcome';

/** Converts the outcome of a publish to evidence about the command. */
export function toEvidence(outcome: Exclude<PublishOutcome, { readonly kind: 'not_acknowledged' }>): Evidence {
  if (outcome.kind === 'acknowledged') return { kind: 'transport_ok' };
  if (outcome.kind === 'no_subscribers')
    return {
      kind: 'known_undelivered',
      code: 'no_subscribers',
      message: 'no client is subscribed to the topic at the broker',
    };
  const { code, message, isTemporary } = outcome;
  return { kind: isTemporary ? 'known_undelivered' : 'refused', code, message };
}
