// What the single binary runs: the program out of its assets, with the machine's form of all functions that a start needs, made by warmUp.cjs.
'use strict';
const { getAssetKeys, getRawAsset } = require('node:sea');
const path = require('node:path');
const { Script } = require('node:vm');

// The build left ASCII alone in it, which takes a third of the time to read.
const source = Buffer.from(getRawAsset('program.js')).toString('latin1');
const cachedData = getAssetKeys().includes('program.cache') ? Buffer.from(getRawAsset('program.cache')) : undefined;
const file = process.execPath;
const script = new Script(source, { filename: 'plantroom.js', cachedData });
script.runInThisContext()(module.exports, require, module, file, path.dirname(file));
