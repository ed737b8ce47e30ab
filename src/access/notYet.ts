import { DomainError } from '../kernel/errors';

/** Stands for a method whose room is being built. */
export function notYet(): never {
  throw new DomainError('unimplemented', 'method_unknown', 'this method is being built');
}
