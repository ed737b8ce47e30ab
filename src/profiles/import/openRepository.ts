import { DomainError } from '../../kernel/errors';
import { openChirpStackProfiles } from './chirpStackProfiles';
import { openLorawanDevices } from './lorawanDevices';
import type { ProfileRepository } from './readVendor';
import { SandboxedDirectory } from './sandboxedDirectory';
import { MAX_PER_VENDOR } from './importQuota';

/**
 * Detects which of the two public repositories a folder contains and opens it. `maxPerVendor`: the limits of what is
 * later imported of each vendor. Throws `not_a_profile_repository`.
 */
export function openRepository(folder: string, maxPerVendor = MAX_PER_VENDOR): ProfileRepository {
  const directory = openFolder(folder);
  const isLorawanDevices = directory.has('vendor/index.yaml', 'file');
  const isChirpStack = directory.has('vendors', 'folder');
  const bothWarning = {
    file: 'vendors',
    reason:
      'is not imported, because the folder also contains vendor/index.yaml; use a separate folder for each repository',
  };
  if (isLorawanDevices) return openLorawanDevices(directory, 'vendor', isChirpStack ? [bothWarning] : [], maxPerVendor);
  if (isChirpStack) return openChirpStackProfiles(directory, 'vendors', [], maxPerVendor);
  // The passed folder is itself `vendor` or `vendors`.
  if (directory.name === 'vendor' && directory.has('index.yaml', 'file'))
    return openLorawanDevices(directory, '.', [], maxPerVendor);
  if (directory.name === 'vendors' && directory.has('.', 'folder'))
    return openChirpStackProfiles(directory, '.', [], maxPerVendor);
  throw notARepository(
    `${folder} contains neither vendor/index.yaml (lorawan-devices) nor vendors/ (chirpstack-device-profiles)`,
  );
}

/** Opens the folder. Throws `not_a_profile_repository` if it cannot be opened. */
function openFolder(folder: string): SandboxedDirectory {
  try {
    return new SandboxedDirectory(folder);
  } catch (error) {
    throw notARepository(
      `${folder} cannot be opened (${(error as NodeJS.ErrnoException).code ?? String(error)})`,
      error,
    );
  }
}

/** Creates the error for a folder that cannot be imported. */
function notARepository(message: string, cause?: unknown): DomainError {
  return new DomainError(
    'invalid_argument',
    'not_a_profile_repository',
    `${message}; specify the folder of a checkout of lorawan-devices or chirpstack-device-profiles`,
    { cause },
  );
}
