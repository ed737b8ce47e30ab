import { IMPLIED_SCOPES, SCOPES, type Scope } from '../../src/kernel/scopes';

/** Lists all scopes except this one and those that imply it. */
export function scopesWithout(scope: string): Scope[] {
  return SCOPES.filter((one) => one !== scope && !IMPLIED_SCOPES[one]?.some((implied) => implied === scope));
}
