package apps

import "math"

// sightings is the number of sightings of each object.
const sightings = 10_000

// predict follows moving objects from noisy sightings, with a Kalman filter for each axis of each object.
func predict(objects int, _ string) (uint64, error) {
	return inParallel(objects, func(object int) uint64 {
		random := randomOf(object)
		var x, y filter
		placeX, placeY, speedX, speedY := 0.0, 0.0, 10*random.NormFloat64(), 10*random.NormFloat64()
		for range sightings {
			placeX, placeY = placeX+speedX*step, placeY+speedY*step
			speedX, speedY = speedX+0.1*random.NormFloat64(), speedY+0.1*random.NormFloat64()
			x.see(placeX + random.NormFloat64())
			y.see(placeY + random.NormFloat64())
		}
		const ahead = 50 * step
		away := math.Hypot(x.place+ahead*x.speed-placeX-ahead*speedX, y.place+ahead*y.speed-placeY-ahead*speedY)
		return uint64(1000 * away) // error of the predicted position in millimeters
	}), nil
}

// step is the time between sightings, in seconds.
const step = 0.05

// A filter estimates a position and a speed with their covariances (Kalman, "A New Approach to Linear Filtering and
// Prediction Problems", 1960). Sightings have a variance of 1.
type filter struct {
	place, speed float64
	pp, ps, ss   float64
	seen         bool
}

func (f *filter) see(at float64) {
	if !f.seen {
		*f = filter{place: at, pp: 1, ss: 100, seen: true}
		return
	}
	// Predict.
	f.place += f.speed * step
	f.pp += step * (2*f.ps + step*f.ss)
	f.ps += step * f.ss
	f.ss += 0.01 // variance of the change of speed
	// Correct.
	off, sum := at-f.place, f.pp+1
	gainPlace, gainSpeed := f.pp/sum, f.ps/sum
	f.place += gainPlace * off
	f.speed += gainSpeed * off
	f.ss -= gainSpeed * f.ps
	f.ps -= gainPlace * f.ps
	f.pp -= gainPlace * f.pp
}
