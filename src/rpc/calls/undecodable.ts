import type { DomainError } from '../../kernel/errors';

/** What stands for a message whose bytes could not be read; the adapter answers it with `error`. */
export class Undecodable {
  constructor(readonly error: DomainError) {}
}
