import { refuseNewer } from './migrate';
import { MIGRATIONS } from './migrations';

/** Throws `schema_too_new` for a schema (the name of a migration) that this program does not know. */
export function refuseNewerSchema(schema: string): void {
  refuseNewer([schema], MIGRATIONS);
}
