import { DomainError } from '../../kernel/errors';
import { chirpStackProfiles } from './chirpStackProfiles';
import { lorawanDevices } from './lorawanDevices';
import type { ProfileRepository } from './readVendor';
import { SafeFolder } from './safeFolder';
import { MOST_OF_VENDOR } from './vendorRoom';

/** Recognises which of the two public repositories a folder holds. Of each vendor no more than `most` is taken. Throws `not_a_profile_repository`. */
export function openRepository(folder: string, most = MOST_OF_VENDOR): ProfileRepository {
  const door = openFolder(folder);
  const isLorawanDevices = door.has('vendor/index.yaml', 'file');
  const isChirpStack = door.has('vendors', 'folder');
  const both = { file: 'vendors', reason: 'is not imported, for vendor/index.yaml is there too; give each repository a folder of its own' };
  if (isLorawanDevices) return lorawanDevices(door, 'vendor', isChirpStack ? [both] : [], most);
  if (isChirpStack) return chirpStackProfiles(door, 'vendors', [], most);
  // The folder of the vendors itself was given.
  if (door.name === 'vendor' && door.has('index.yaml', 'file')) return lorawanDevices(door, '.', [], most);
  if (door.name === 'vendors' && door.has('.', 'folder')) return chirpStackProfiles(door, '.', [], most);
  throw notARepository(`${folder} holds neither vendor/index.yaml (lorawan-devices) nor vendors/ (chirpstack-device-profiles)`);
}

function openFolder(folder: string): SafeFolder {
  try {
    return new SafeFolder(folder);
  } catch (error) {
    throw notARepository(`${folder} cannot be opened (${(error as NodeJS.ErrnoException).code ?? String(error)})`, error);
  }
}

function notARepository(what: string, cause?: unknown): DomainError {
  return new DomainError('invalid_argument', 'not_a_profile_repository', `${what}; give the folder of a checkout of one of them`, { cause });
}
