import { DomainError } from '../../kernel/errors';
import type { ProfileRepository } from './readVendor';

/** Recognises which of the two public repositories a folder holds. Throws `not_a_profile_repository`. */
export function openRepository(folder: string): ProfileRepository {
  throw new DomainError('invalid_argument', 'not_a_profile_repository', `${folder} holds neither vendor/index.yaml (lorawan-devices) nor vendors/ (chirpstack-device-profiles); give the folder of a checkout of one of them`);
}
