import { assertSchemaSupported } from './migrate';
import { MIGRATIONS } from './migrations';

/** Throws `schema_version_unsupported` for a schema (the name of a migration) that this program does not know. */
export function assertSchemaKnown(schema: string): void {
  assertSchemaSupported([schema], MIGRATIONS);
}
