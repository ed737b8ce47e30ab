import type { DomainError } from '../../kernel/errors';

/** Replaces a message that could not be decoded; the call fails with `error`. */
export class DecodeFailure {
  constructor(readonly error: DomainError) {}
}
