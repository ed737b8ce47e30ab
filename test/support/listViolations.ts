import type { DescMessage } from '@bufbuild/protobuf';
import type { FieldRuleChecks } from '../../src/api/validation/fieldRuleChecks';
import type { Violation } from '../../src/kernel/errors';

/** Returns all violations of a message. */
export function listViolations(checks: FieldRuleChecks, desc: DescMessage, message: unknown): Violation[] {
  const out: Violation[] = [];
  checks.getCheck(desc)(message as Record<string, unknown>, '', out);
  return out;
}
