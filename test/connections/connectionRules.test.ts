import { checkDeviceConfiguration, applyPolicyDefaults, normalizeClientDeviceId } from '../../src/connections';

describe('connection rules', () => {
  it.each([
    ['nothing', {}, { maxInFlight: 16 }],
    [
      'everything',
      {
        queueLimit: 1,
        sleepy: true,
        deliveryTimeout: 5,
        ackTimeout: 6,
        maxInFlight: 7,
        implicitAckTimeout: 8,
        convergenceTimeout: 9,
        uplinkInterval: 10,
      },
      { maxInFlight: 7 },
    ],
  ])('fill in the defaults of a policy that says %s', (_, policy, effective) => {
    expect(applyPolicyDefaults(policy)).toEqual(effective);
  });

  it('accept a device id of a gateway and trim it', () => {
    expect(normalizeClientDeviceId('gateway', '  Valve/1 + 2 #3 ')).toBe('Valve/1 + 2 #3');
    expect(normalizeClientDeviceId('gateway', '🌡'.repeat(255))).toBe('🌡'.repeat(255));
  });

  it.each(['', '   ', 'a\u0000b', 'a\nb', '\ud800', 'x'.repeat(256)])('reject the device id %j', (text) => {
    expect(() => normalizeClientDeviceId('gateway', text)).toThrow(
      expect.objectContaining({
        reason: 'validation_failed',
        violations: [expect.objectContaining({ field: 'physicalDevice.clientDeviceId' })],
      }),
    );
  });

  it('accept any device configuration for gateways, and reject an unknown connector', () => {
    expect(checkDeviceConfiguration('gateway', { any: { thing: [1] } })).toEqual([]);
    expect(() => checkDeviceConfiguration('pigeon', {})).toThrow(
      expect.objectContaining({ reason: 'connector_not_found' }),
    );
  });
});
