import { DomainError } from '../kernel/errors';

/** Creates the error for an attempt to change a system record. `recordType`: the kind of record, for the message. */
export function readOnlySystemRecord(recordType: string, id: string): DomainError {
  return new DomainError(
    'conflict',
    'read_only_record',
    `this ${recordType} is a system record and cannot be changed; create your own instead`,
    { metadata: { id } },
  );
}
